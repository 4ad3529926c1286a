"""A ROS 2 node that voxelizes: for each PointCloud2 on `points` it publishes one on `voxels` with the voxels' means.

    python3 ros2_voxels.py --ros-args -r points:=/velodyne_points -p url:=http://localhost:8080 -p preset:=kitti_second

`fields` names the fields that the preset's model expects, x, y and z first. The voxels keep the stamp and the frame of
their scan. The node logs and drops a scan that the service refuses. Needs rclpy and sensor_msgs of ROS 2, and voxeld.
"""

import numpy as np

import voxeld

# PointField.INT8 .. FLOAT64
TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}
INT32, FLOAT32 = 5, 7


def points_of(cloud, names):
    """The named fields of a PointCloud2 as rows of float32."""
    fields = {field.name: field for field in cloud.fields}
    order = ">" if cloud.is_bigendian else "<"
    row = np.dtype(
        {
            "names": names,
            "formats": [order + TYPES[fields[name].datatype] for name in names],
            "offsets": [fields[name].offset for name in names],
            "itemsize": cloud.point_step,
        }
    )
    strides = (cloud.row_step, cloud.point_step)
    rows = np.ndarray((cloud.height, cloud.width), row, bytes(cloud.data), strides=strides)
    return np.stack([rows[name].ravel().astype(np.float32) for name in names], axis=-1)


def fill(cloud, field, header, names, features, counts):
    """Fills a PointCloud2 with the voxels' means and numbers of points. `field` makes a PointField."""
    rows = np.empty(len(counts), [*((name, "<f4") for name in names), ("count", "<i4")])
    for column, name in enumerate(names):
        rows[name] = features[:, column]
    rows["count"] = counts
    cloud.header = header
    cloud.height, cloud.width = 1, len(rows)
    cloud.fields = [
        field(name=name, offset=rows.dtype.fields[name][1], datatype=INT32 if name == "count" else FLOAT32, count=1)
        for name in rows.dtype.names
    ]
    cloud.is_bigendian, cloud.is_dense = False, True
    cloud.point_step, cloud.row_step = rows.itemsize, rows.nbytes
    cloud.data = rows.tobytes()
    return cloud


def main():
    import rclpy
    from rclpy.qos import qos_profile_sensor_data
    from sensor_msgs.msg import PointCloud2, PointField

    rclpy.init()
    node = rclpy.create_node("voxels")
    url = node.declare_parameter("url", "http://localhost:8080").value
    preset = node.declare_parameter("preset", "kitti_second").value
    names = list(node.declare_parameter("fields", ["x", "y", "z", "intensity"]).value)
    publisher = node.create_publisher(PointCloud2, "voxels", 1)
    client = voxeld.Client(url)

    def on_cloud(cloud):
        try:
            result = client.voxelize(points_of(cloud, names), preset, feature="mean", feature_dtype="float32")
        except voxeld.Error as error:
            node.get_logger().error(str(error))
            return
        voxels = result["voxel_features"], result["voxel_num_points"]
        publisher.publish(fill(PointCloud2(), PointField, cloud.header, names, *voxels))

    node.create_subscription(PointCloud2, "points", on_cloud, qos_profile_sensor_data)
    try:
        rclpy.spin(node)
    finally:
        client.close()
        node.destroy_node()


if __name__ == "__main__":
    main()
