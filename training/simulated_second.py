# A small SECOND for simulated streets. `train` and voxeld-convert read it. It is in mmdetection3d's form, since
# OpenPCDet's backbones have fixed widths.
class_names = ["Car", "Pedestrian", "Cyclist"]
point_cloud_range = [-32, -32, -3, 32, 32, 2]
voxel_size = [0.2, 0.2, 0.25]

model = dict(
    type="VoxelNet",
    data_preprocessor=dict(
        type="Det3DDataPreprocessor",
        voxel=True,
        voxel_layer=dict(
            max_num_points=5, point_cloud_range=point_cloud_range, voxel_size=voxel_size, max_voxels=(40000, 40000)
        ),
    ),
    voxel_encoder=dict(type="HardSimpleVFE", num_features=4),
    middle_encoder=dict(
        type="SparseEncoder",
        in_channels=4,
        sparse_shape=[21, 320, 320],
        order=("conv", "norm", "act"),
        base_channels=16,
        encoder_channels=((16,), (32,), (48, 48)),
        encoder_paddings=((1,), (1,), ((0, 1, 1), 1)),
        output_channels=48,
    ),
    backbone=dict(
        type="SECOND",
        in_channels=96,
        layer_nums=[2, 3],
        layer_strides=[1, 2],
        out_channels=[48, 96],
        norm_cfg=dict(type="BN", eps=1e-3, momentum=0.05),
    ),
    neck=dict(
        type="SECONDFPN",
        in_channels=[48, 96],
        upsample_strides=[2, 4],
        out_channels=[32, 32],
        norm_cfg=dict(type="BN", eps=1e-3, momentum=0.05),
    ),
    bbox_head=dict(
        type="Anchor3DHead",
        num_classes=3,
        in_channels=64,
        feat_channels=64,
        use_direction_classifier=True,
        anchor_generator=dict(
            type="AlignedAnchor3DRangeGenerator",
            ranges=[[-32, -32, -1.73, 32, 32, -1.73]],
            sizes=[[4.2, 1.75, 1.57], [0.55, 0.62, 1.72], [1.75, 0.6, 1.72]],
            rotations=[0, 1.57],
        ),
        bbox_coder=dict(type="DeltaXYZWLHRBBoxCoder"),
        dir_offset=0.78539,
        dir_limit_offset=0,
        loss_cls=dict(type="FocalLoss", use_sigmoid=True, gamma=2.0, alpha=0.25),
    ),
    train_cfg=dict(
        assigner=[
            dict(type="Max3DIoUAssigner", pos_iou_thr=0.6, neg_iou_thr=0.45),
            dict(type="Max3DIoUAssigner", pos_iou_thr=0.45, neg_iou_thr=0.25),
            dict(type="Max3DIoUAssigner", pos_iou_thr=0.45, neg_iou_thr=0.3),
        ]
    ),
    test_cfg=dict(use_rotate_nms=True, nms_thr=0.01, score_thr=0.3, nms_pre=1024, max_num=200),
)

test_dataloader = dict(
    dataset=dict(
        type="KittiDataset",
        pipeline=[dict(type="LoadPointsFromFile", coord_type="LIDAR", load_dim=4, use_dim=[0, 1, 2, 3])],
    )
)
